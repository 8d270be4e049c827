/* Keys: Ctrl-K or / searches, j and k go from row to row, ? lists the keys. A pause in typing starts the search. */
(function () {
  "use strict";
  const ROWS = "#page tbody tr, #page .finding";
  const PAUSE_MS = 200;
  let from = null;
  let pause = 0;

  const panel = (id) => document.getElementById(id);
  const open = (id) => panel(id) && panel(id).classList.contains("open");
  const typing = (at) => at.closest("input, textarea, select, [contenteditable=true]") !== null;

  function show(id, inside) {
    close();
    from = document.activeElement;
    panel(id).classList.add("open");
    const field = panel(id).querySelector(inside);
    field.focus();
    if (field.select) field.select();
  }

  function close() {
    const closed = ["search", "keys"].filter(open);
    closed.forEach((id) => panel(id).classList.remove("open"));
    if (closed.length && from && from.isConnected) from.focus({preventScroll: true});
  }

  function rows() {
    return Array.from(document.querySelectorAll(ROWS)).filter((row) => row.offsetParent && row.querySelector("a[href]"));
  }

  function step(by) {
    const all = rows();
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    if (next) {
      next.querySelector("a[href]").focus();
      next.scrollIntoView({block: "nearest"});
    }
  }

  function within(event) {
    const links = Array.from(document.querySelectorAll("#sought a"));
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const to = at + (event.key === "ArrowDown" ? 1 : -1);
      (to < 0 ? panel("seek") : links[Math.min(to, links.length - 1)] || panel("seek")).focus();
    } else if (event.key === "Enter" && at < 0 && links.length) {
      event.preventDefault();
      links[0].click();
    } else if (event.key === "Tab") {
      const fields = [panel("seek"), ...links];
      const edge = event.shiftKey ? 0 : fields.length - 1;
      if (document.activeElement === fields[edge]) {
        event.preventDefault();
        fields[event.shiftKey ? fields.length - 1 : 0].focus();
      }
    }
  }

  document.addEventListener("keydown", (event) => {
    if (!panel("search")) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (open("search")) close(); else show("search", "#seek");
      return;
    }
    if (event.key === "Escape") {
      if (open("search") || open("keys")) event.preventDefault();
      close();
      return;
    }
    if (open("search")) { within(event); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "/") { event.preventDefault(); show("search", "#seek"); }
    else if (event.key === "?") { event.preventDefault(); show("keys", ".panel"); }
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
  });

  document.addEventListener("input", (event) => {
    if (event.target.id !== "seek") return;
    clearTimeout(pause);
    pause = setTimeout(() => window.dash_clientside.set_props("sought-words", {data: event.target.value}), PAUSE_MS);
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest(".finder")) show("search", "#seek");
    else if (event.target.closest("#sought a") || event.target.classList.contains("over")) close();
  });
})();
