/* The library of the charts is nearly as large as all the rest of a page. It loads when the first chart comes near the screen; below
   it, when the page has been open for a while, so that a printed page has its charts. Dash waits for window.Plotly. The file has the
   lines, bars and heat maps of Plotly only: a third of what Dash brings. */
(function () {
  "use strict";
  const LIBRARY = new URL("plotly/plotly-cartesian-4.1.1.min.js?m=4.1.1", document.currentScript.src).href;
  const NEAR_PX = 100;
  const LATEST_MS = 15000;
  if (window.Plotly) return;

  const load = () =>
    new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = LIBRARY;
      script.async = true;
      script.onload = done;
      script.onerror = () => failed(new Error("the library of the charts did not load"));
      document.head.appendChild(script);
    });

  const near = () =>
    [...document.querySelectorAll("#page .chart")].some((chart) => {
      const place = chart.getBoundingClientRect();
      return place.height > 0 && place.top < window.innerHeight + NEAR_PX && place.bottom > -NEAR_PX;
    });

  const seen = () =>
    new Promise((done) => {
      const end = () => {
        changes.disconnect();
        clearTimeout(latest);
        for (const [name, how] of events) window.removeEventListener(name, how, true);
        done();
      };
      const look = () => {
        if (near()) end();
      };
      const events = [["scroll", look], ["resize", look], ["toggle", look], ["beforeprint", end]];
      const changes = new MutationObserver(look);
      const latest = setTimeout(end, LATEST_MS);
      for (const [name, how] of events) window.addEventListener(name, how, true);
      changes.observe(document.body, {childList: true, subtree: true});
      look();
    });

  let loaded = null;
  window.Plotly = {
    then(done, failed) {
      loaded = loaded || seen().then(load);
      loaded.then(() => done(window.Plotly), failed);
    },
  };
})();
