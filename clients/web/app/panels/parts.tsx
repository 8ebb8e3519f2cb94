/** Parts: the buttons, choices and small panels that the rest is made of. */
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A round-cornered button with an icon, 44 px at least. */
export function IconButton(props: {
  readonly label: string;
  /** Its key, for the tooltip. */
  readonly keys?: string;
  readonly disabled?: boolean;
  readonly expanded?: boolean;
  readonly class?: string;
  readonly onPress: () => void;
  readonly children: ComponentChildren;
}) {
  const { label, keys } = props;
  return (
    <button
      type="button"
      class={`icon-button ${props.class ?? ""}`}
      aria-label={label}
      aria-expanded={props.expanded}
      title={keys === undefined ? label : `${label} (${keys})`}
      disabled={props.disabled ?? false}
      onClick={props.onPress}
    >
      {props.children}
    </button>
  );
}

/** One of several: a native radio, so that arrow keys and screen readers know it. Picking it again counts. */
export function Choice(props: {
  readonly group: string;
  readonly label: string;
  readonly keys?: string;
  readonly checked: boolean;
  readonly class?: string;
  readonly onPick: () => void;
  readonly children: ComponentChildren;
}) {
  const { label, keys } = props;
  return (
    <label class={`choice ${props.class ?? ""}`} title={keys === undefined ? label : `${label} (${keys})`}>
      <input
        type="radio"
        name={props.group}
        aria-label={label}
        checked={props.checked}
        onChange={props.onPick}
        onClick={(event) => {
          props.onPick();
          // Picked by pointer: keys go to the board again, so that the space bar moves it.
          if (event.detail > 0) event.currentTarget.blur();
        }}
      />
      <span class="face">{props.children}</span>
    </label>
  );
}

/**
 * A small panel at its button. The element around both is `anchor`: a press outside of it, or Escape, closes the
 * panel, and focus goes back to where it came from.
 */
export function Popover(props: {
  readonly anchor: RefObject<HTMLElement | null>;
  readonly label: string;
  readonly class?: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const own = useRef<HTMLDivElement>(null);
  const close = useRef(props.onClose);
  close.current = props.onClose;
  useLayoutEffect(() => {
    const before = document.activeElement;
    own.current?.focus({ preventScroll: true });
    const outside = (event: Event) => {
      const inside = event.target instanceof Node && props.anchor.current?.contains(event.target) === true;
      if (!inside) close.current();
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close.current();
    };
    document.addEventListener("pointerdown", outside, true);
    document.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("pointerdown", outside, true);
      document.removeEventListener("keydown", onKey, true);
      // Focus that meanwhile went elsewhere was put there on purpose.
      const lost = document.activeElement === document.body || own.current?.contains(document.activeElement);
      if (lost !== false && before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, [props.anchor]);
  return (
    <section ref={own} class={`popover surface ${props.class ?? ""}`} aria-label={props.label} tabIndex={-1}>
      {props.children}
    </section>
  );
}

/** What focus goes back to: an item of a small panel is gone by then, and the panel's button stands for it. */
function openerOf(focused: Element | null): Element | null {
  const panel = focused?.closest(".popover") ?? null;
  return panel === null ? focused : (panel.closest(".anchor")?.querySelector("[aria-expanded]") ?? null);
}

/** A dialog over everything; Escape and a press beside it close it, and focus goes back to where it came from. */
export function Dialog(props: {
  readonly title: string;
  readonly class?: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const own = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = openerOf(document.activeElement);
    own.current?.showModal();
    // Not the first button: what is read out first is the title, and no key press answers by accident.
    own.current?.focus({ preventScroll: true });
    // Opening it focused that button for a moment, and scrolled to it.
    if (own.current !== null) own.current.scrollTop = 0;
    return () => {
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={own}
      class={`dialog ${props.class ?? ""}`}
      tabIndex={-1}
      aria-label={props.title}
      onClose={props.onClose}
      onPointerDown={(event) => {
        // Its padding is inside an element of its own: what hits the dialog itself hit the backdrop.
        if (event.target === event.currentTarget) props.onClose();
      }}
    >
      <div class="dialog-body">
        <h2>{props.title}</h2>
        {props.children}
      </div>
    </dialog>
  );
}

/** Somebody's colour and letters. */
export function Avatar(props: { readonly colour: string; readonly text: string; readonly letters: string }) {
  return (
    <span class="avatar" style={{ background: props.colour, color: props.text }} aria-hidden="true">
      {props.letters}
    </span>
  );
}
