// Shows the report of a whole session, as `meridian report` prints it: where the time was spent and which workers were late.
import { h, say } from "./dom.js";
import { request, session } from "./api.js";

const ask = async (id, format) => (await request(`${session(id)}/profile?format=${format}`)).text();

/** Returns an element with the content of the HTML report in a shadow tree, so that its style does not affect this page. The report has no script. */
function pictures(text) {
  const [whole, style] = /<style>([^]*?)<\/style>/.exec(text); // the page's security policy forbids style elements, so the style becomes a style sheet object
  const page = new DOMParser().parseFromString(text.replace(whole, ""), "text/html"), host = h("div", { class: "pictures" });
  const sheet = new CSSStyleSheet(), shadow = host.attachShadow({ mode: "open" });
  sheet.replaceSync(style);
  shadow.adoptedStyleSheets = [sheet];
  const main = document.importNode(page.querySelector("main"), true);
  main.querySelector("details")?.remove(); // the text of the report has a button of its own
  main.querySelector("h1")?.remove(); // the section already has this heading
  shadow.append(main);
  return host;
}

/** Returns {element, update}. update(events) shows the element if the session has events. */
export function report(id) {
  const text = h("pre", { class: "report scroll", tabindex: "0", "aria-label": "Report" });
  const place = h("div", {});
  text.hidden = true;
  const button = (name, again, show) => {
    const el = h("button", { type: "button" }, name);
    el.addEventListener("click", async () => {
      el.setAttribute("aria-disabled", "true");
      try {
        await show();
        el.textContent = again;
      } catch (e) {
        say(e.message);
      }
      el.removeAttribute("aria-disabled");
    });
    return el;
  };
  const draw = button("Show pictures", "Show pictures again", async () => place.replaceChildren(pictures(await ask(id, "report-html"))));
  const print = button("Show text", "Show text again", async () => {
    text.textContent = await ask(id, "report-text");
    text.hidden = false;
  });
  const element = h("div", { hidden: true }, h("h3", {}, "Where the time goes, who was late ", draw, " ", print), place, text);
  return { element, update: (events) => { element.hidden = events === 0; } };
}
