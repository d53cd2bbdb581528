// Where the time goes and who was late: what `meridian report` prints, of the whole session.
import { h, say } from "./dom.js";
import { request, session } from "./api.js";

/** {element, update(events): shows itself once there is something to report}. */
export function report(id) {
  const text = h("pre", { class: "report scroll", tabindex: "0", "aria-label": "Report" });
  const button = h("button", { type: "button" }, "Show");
  const element = h("div", { hidden: true }, h("h3", {}, "Where the time goes, who was late ", button), text);
  text.hidden = true;
  button.addEventListener("click", async () => {
    button.setAttribute("aria-disabled", "true");
    try {
      text.textContent = await (await request(`${session(id)}/profile?format=report-text`)).text();
      text.hidden = false;
      button.textContent = "Show again";
    } catch (e) {
      say(e.message);
    }
    button.removeAttribute("aria-disabled");
  });
  return { element, update: (events) => { element.hidden = events === 0; } };
}
