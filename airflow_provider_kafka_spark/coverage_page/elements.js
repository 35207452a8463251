// Elements of the page. Whatever comes from the API becomes text, by textContent, and never markup.

import { runUrl, taskUrl } from "./api.js";

export const at = (id) => document.getElementById(id);

export function make(tag, { text, className, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function button(text, action, attributes = {}) {
  const element = make("button", { text, type: "button", ...attributes });
  element.addEventListener("click", action);
  return element;
}

/** Airflow shows the page in a frame that may not leave it and download nothing, so its own window follows a link. */
function follow(attributes) {
  const owner = window.parent === window ? document : window.parent.document;
  const anchor = Object.assign(owner.createElement("a"), attributes);
  anchor.click();
}

export function go(url, event) {
  follow({ href: url, target: event?.ctrlKey || event?.metaKey ? "_blank" : "" });
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  follow({ href: url, download: name });
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function link(text, url) {
  const anchor = make("a", { text, href: url });
  anchor.addEventListener("click", (event) => {
    event.preventDefault();
    go(url, event);
  });
  return anchor;
}

/** What may be made by nobody's task has no page. */
export function canBeOpened({ dagId, dagRunId, taskId }) {
  return dagId !== "" && dagRunId !== "" && taskId !== "";
}

export function taskName({ dagId, taskId, mapIndex }) {
  const mapped = mapIndex >= 0 ? `[${mapIndex}]` : "";
  return dagId === "" ? "an unknown task" : `${dagId}.${taskId}${mapped}`;
}

export function taskLink(entry, text = taskName(entry)) {
  return canBeOpened(entry) ? link(text, taskUrl(entry)) : make("span", { text });
}

export function runLink(dagId, dagRunId) {
  return link(dagRunId, runUrl(dagId, dagRunId));
}

export function serverName(server) {
  return server || "(server not known)";
}

export function topicName(topic) {
  return topic || "(topic not known yet)";
}
