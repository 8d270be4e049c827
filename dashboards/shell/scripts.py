"""Scripts of callbacks that run in the browser."""

from __future__ import annotations

GROUND_SCRIPT = """function(reported, shown) {
  let chosen = document.documentElement.getAttribute('data-mantine-color-scheme');
  try { chosen = chosen || window.localStorage.getItem('mantine-color-scheme-value'); } catch (refused) { /* no storage */ }
  const dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
  const found = chosen === 'dark' || chosen === 'light' ? chosen : dark ? 'dark' : 'light';
  return found === shown ? window.dash_clientside.no_update : found;
}"""
"""The colors of the page. The toggle reports light until it is used, even on a system set to dark, and nothing is set at first: what was
chosen, or what the system has, is what will be set. A value that stays draws no page a second time, which would clear its fields."""

TITLE_SCRIPT = "function(title) { if (title) { document.title = title; } return ''; }"

WANTED_SCRIPT = """function(wanted) {
  const at = window.location.pathname + window.location.search;
  return wanted && wanted.at === at ? wanted.search : window.dash_clientside.no_update;
}"""
"""A chosen filter takes effect at the address where it was chosen: after a Back meanwhile, the address bar wins."""

DUE_SCRIPT = """function(tick) {
  return window.gpuwatchTyped && window.gpuwatchTyped() ? window.dash_clientside.no_update : String(tick);
}"""
"""A page is read again only while nobody types or chooses something on it (assets/typed.js)."""

NOTICE_SCRIPT = """function(digest, notice) {
  const [at, text] = (notice || "").split("\\n");
  if (!text || at !== window.location.pathname + window.location.search) return window.dash_clientside.no_update;
  return {namespace: "dash_html_components", type: "Span", props: {className: "tag t-ok", children: text}};
}"""
"""What a form did is shown on the page that it leads to; showing a page clears the message of the one before."""

PRESSED_SCRIPT = """function(clicks) {
  const [button] = window.dash_clientside.callback_context.triggered;
  if (!button || !button.value) return window.dash_clientside.no_update;
  const id = button.prop_id.slice(0, button.prop_id.lastIndexOf("."));
  return [Date.now(), button.value, JSON.parse(id).edit].join("\\n");
}"""
"""Which button of a form somebody pressed, and when. Dash also calls this for buttons that come and go with a page: no button was pressed
then, and without one Dash cannot tell which buttons to disable."""

FOCUS_SCRIPT = """function(digest, done) {
  const at = window.location.pathname + window.location.search;
  if (!/[?&]action=(ack|snooze)(&|$)/.test(window.location.search) || done === at) {
    return window.dash_clientside.no_update;
  }
  let left = 30;
  const seek = () => {
    const field = document.querySelector('#decide.chosen textarea');
    if (field) {
      field.scrollIntoView({block: 'center'});
      field.focus({preventScroll: true});
    } else if (--left > 0) {
      setTimeout(seek, 100);
    }
  };
  setTimeout(seek, 50);
  return at;
}"""
"""An action link in a notification opens the finding and focuses the form, once."""
