/**
 * Focus, where a pointer is used: the keys that come next are for the board, not for the button that was pressed last.
 * Otherwise the space bar, held to move the board, would press it again. Who goes by keys keeps the focus where it is.
 */
export function letGoOfFocus(panels: HTMLElement, stage: HTMLElement): void {
  panels.addEventListener("click", (event) => {
    const { activeElement } = document;
    // Presses by keys have no count.
    if (event.detail > 0 && activeElement instanceof HTMLButtonElement) activeElement.blur();
  });
  // The stage takes all that a browser does on its own when it is pressed; so a name that was typed would not be taken.
  stage.addEventListener("pointerdown", () => {
    const { activeElement } = document;
    if (activeElement instanceof HTMLElement && !stage.contains(activeElement)) activeElement.blur();
  });
}
