/** Share: the way for others onto this board. */
import { useMemo, useRef, useState } from "preact/hooks";
import { encodeQR } from "qr";
import type { AppState } from "../app-state.ts";
import { CheckIcon, CopyIcon, ShareIcon } from "./icons.tsx";
import { keptToken } from "./invitation.ts";
import { boardTitle } from "./names.ts";
import { Dialog } from "./parts.tsx";
import { Remembered } from "./remembered.ts";

/** Whether a host name means "this computer" wherever it is opened. */
export function isOnlyHere(hostname: string): boolean {
  return (
    hostname === "localhost" ||
    hostname.endsWith(".localhost") ||
    hostname === "[::1]" ||
    /^127(\.\d{1,3}){3}$/.test(hostname)
  );
}

/** A QR code's dark modules as the path of an SVG, one unit each. */
export function qrPath(rows: readonly (readonly boolean[])[]): string {
  return rows.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : ""))).join("");
}

function Code({ text }: { readonly text: string }) {
  const rows = useMemo(() => encodeQR(text, "raw", { ecc: "medium", border: 2 }), [text]);
  return (
    <svg class="qr" viewBox={`0 0 ${rows.length} ${rows.length}`} role="img" aria-label="QR code of the link">
      <path d={qrPath(rows)} />
    </svg>
  );
}

/** Copies what is selected in a field: where there is no clipboard API, the old command mostly works. */
async function copy(field: HTMLInputElement): Promise<boolean> {
  field.focus();
  field.setSelectionRange(0, field.value.length);
  if (globalThis.isSecureContext && navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(field.value);
      return true;
    } catch {
      // Not allowed here: the old command may be.
    }
  }
  return document.execCommand("copy");
}

export function ShareDialog({ state }: { readonly state: AppState }) {
  const link = location.href;
  const field = useRef<HTMLInputElement>(null);
  const [copied, setCopied] = useState<"no" | "yes" | "by hand">("no");
  const close = () => {
    state.dialog.value = null;
  };
  return (
    <Dialog title="Draw together" class="share" onClose={close}>
      {isOnlyHere(location.hostname) ? (
        <p class="note">
          This address works on this computer only. For iPads and other computers on your network, stop the
          server and start it with <code>make run LAN=1</code>.
        </p>
      ) : keptToken(state.room, Remembered.inTab()) !== null ? (
        <p class="quiet">
          This is the board's address, without your invitation. Others need one of their own: ask whoever
          invited you.
        </p>
      ) : (
        <>
          <p class="quiet">
            Everyone with this link can open the board. Point a camera at the code, or send the link.
          </p>
          <Code text={link} />
        </>
      )}
      <div class="copy">
        <input
          ref={field}
          class="field"
          readOnly
          value={link}
          aria-label="Link to this board"
          onClick={(event) => event.currentTarget.select()}
        />
        <button
          type="button"
          class="button primary"
          onClick={async () => {
            if (field.current !== null) setCopied((await copy(field.current)) ? "yes" : "by hand");
          }}
        >
          {copied === "yes" ? <CheckIcon /> : <CopyIcon />}
          {copied === "yes" ? "Copied" : "Copy"}
        </button>
      </div>
      <p class="quiet" role="status">
        {copied === "by hand" &&
          "The link is selected: copy it with the keyboard, or from the menu above it."}
      </p>
      <div class="actions">
        {"share" in navigator && (
          <button
            type="button"
            class="button"
            onClick={() => {
              // Rejects when people change their minds, which needs no words.
              navigator.share({ title: boardTitle(state.room), url: link }).catch(() => undefined);
            }}
          >
            <ShareIcon />
            Send…
          </button>
        )}
        <button type="button" class="button" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
