/* Sends the files of a cloud bill to the API, one after another, and reads the page again. The browser's session signs the requests. */
(function () {
  "use strict";
  const ROUTE = "/api/v1/bills";
  const set = (id, props) => window.dash_clientside.set_props(id, props);
  const show = (text, kind) =>
    set("message", {children: {namespace: "dash_html_components", type: "Span", props: {className: "tag " + kind, children: text}}});

  const send = async (kind, file, names) => {
    const asked = new URLSearchParams({kind: kind, name: file.name});
    names.forEach((name) => asked.append("beside", name));
    const answer = await fetch(ROUTE + "?" + asked, {
      method: "POST",
      body: file,
      headers: {"Content-Type": "application/octet-stream"},
    });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error ? found.error.message : "the server answered " + answer.status);
    return found;
  };

  const count = (number, word) => number.toLocaleString("en") + " " + word + (number === 1 ? "" : "s");

  const sentence = (file, found) => {
    if (found.repeated) return file.name + " was imported before: nothing changed.";
    const refused = found.examples.length ? ": " + found.examples[0].reason + " (line " + found.examples[0].line + ")" : "";
    const left = found.rejected ? ", " + found.rejected.toLocaleString("en") + " left out" + refused : "";
    return file.name + ": " + count(found.records, "line") + " imported" + left + ".";
  };

  const take = async (button, files) => {
    button.disabled = true;
    const texts = [];
    let kind = "t-ok";
    for (const file of files) {
      show("Sending " + file.name, "t-plain");
      try {
        texts.push(sentence(file, await send(button.dataset.bill, file, files.map((one) => one.name))));
      } catch (error) {
        kind = "t-bad";
        texts.push(file.name + " was not imported: " + error.message);
        break;
      }
    }
    button.disabled = false;
    show(texts.join(" "), kind);
    set("acted", {data: "bill " + Date.now()});
  };

  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-bill]") : null;
    if (!button) return;
    const field = document.createElement("input");
    field.type = "file";
    field.multiple = true;
    field.addEventListener("change", () => take(button, Array.from(field.files)));
    field.click();
  });
})();
