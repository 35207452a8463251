// A button at each block of code that copies it.
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("div.highlight > pre")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const text = code.textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        // A page that was opened as a file has no clipboard of its own.
        const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    code.parentElement.append(button);
  }
});
