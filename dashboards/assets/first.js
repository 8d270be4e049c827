/* The document already shows the page, drawn by the server. It makes way for the real one as soon as that is there. */
(function () {
  "use strict";
  const LONGEST_MS = 20000;
  const first = document.getElementById("first");
  if (!first) return;

  const end = () => {
    observer.disconnect();
    first.remove();
  };
  const there = () => {
    const page = document.getElementById("page");
    if (page && page.firstElementChild && !page.querySelector(":scope > .skeleton")) end();
  };
  const observer = new MutationObserver(there);
  observer.observe(document.getElementById("react-entry-point"), {childList: true, subtree: true});
  setTimeout(end, LONGEST_MS);
  there();
})();
