/* Whether somebody is filling in something on this page: then it must not be read again, because that would clear it. */
(function () {
  "use strict";
  const FIELDS = "#page input, #page textarea, #page select";
  let touched = new Set();
  let at = "";

  const here = () => window.location.pathname + window.location.search;
  const note = (event) => {
    const field = event.target;
    if (!(field instanceof Element) || !field.matches(FIELDS)) return;
    if (at !== here()) touched = new Set();
    at = here();
    touched.add(field);
  };
  const holds = (field) => {
    if (!field.isConnected) return false;
    return field.type === "checkbox" || field.type === "radio" ? field.checked : field.value !== "";
  };

  document.addEventListener("input", note, true);
  document.addEventListener("change", note, true);
  window.gpuwatchTyped = () => {
    const active = document.activeElement;
    if (active && active.matches("#page textarea, #page input:not([type=checkbox])")) return true;
    return at === here() && Array.from(touched).some(holds);
  };
})();
