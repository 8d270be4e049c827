/* The time zone of all times: UTC, or the browser's own. The choice is a cookie; the page is loaded again in it. The menu of views
   closes when somebody clicks elsewhere, follows a link or presses Escape. */
(function () {
  "use strict";
  const COOKIE = "gpuwatch_zone";
  const YEAR_S = 31536000;

  const own = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const stored = () => {
    const found = document.cookie.split("; ").find((part) => part.startsWith(COOKIE + "="));
    return found ? decodeURIComponent(found.slice(COOKIE.length + 1)) : "";
  };

  function label() {
    const button = document.querySelector(".zone");
    if (!button) return;
    const zone = stored();
    drawn.disconnect();
    button.textContent = zone ? "Local" : "UTC";
    button.title = zone ? "Times in " + zone + "; click for UTC" : "Times in UTC; click for " + own();
    button.setAttribute("aria-label", "Time zone: " + (zone || "UTC"));
  }

  function toggle() {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    const value = stored() ? "; Max-Age=0" : encodeURIComponent(own()) + "; Max-Age=" + YEAR_S;
    document.cookie = COOKIE + "=" + value + "; Path=/ui; SameSite=Strict" + secure;
    location.reload();
  }

  const menu = () => document.querySelector("details.views[open]");
  document.addEventListener("click", (event) => {
    if (event.target.closest(".zone")) toggle();
    const open = menu();
    if (open && (!event.target.closest("details.views") || event.target.closest(".view-list a"))) open.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const open = menu();
    if (event.key === "Escape" && open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });
  const drawn = new MutationObserver(label);
  drawn.observe(document.documentElement, {childList: true, subtree: true});
  label();
})();
