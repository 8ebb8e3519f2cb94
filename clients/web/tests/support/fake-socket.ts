/** A fake socket: a WebSocket whose other end is the test. */
import { decode, encode } from "@msgpack/msgpack";

/** Client 7 is welcome in an empty room. */
export const WELCOME = [65, 7, "ticket", [1, 0, 0, 0, 0], 1, [65_536, 512, 262_144, 0, 0]];

export class FakeSocket {
  static readonly OPEN = 1;
  static made: FakeSocket[] = [];
  readyState = 0;
  bufferedAmount = 0;
  binaryType = "";
  readonly sent: ArrayBuffer[] = [];
  closed: number | undefined;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;

  constructor(
    readonly url: string,
    readonly protocol: string,
  ) {
    FakeSocket.made.push(this);
  }

  send(data: ArrayBuffer): void {
    this.sent.push(data);
  }

  /** What was sent, as frames. */
  get frames(): unknown[] {
    return this.sent.map((data) => decode(data));
  }

  close(code = 1005): void {
    this.closed ??= code;
    this.readyState = 3;
  }

  opens(): void {
    this.readyState = FakeSocket.OPEN;
    this.onopen?.();
  }

  says(frame: unknown): void {
    const bytes = encode(frame);
    this.onmessage?.({ data: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) });
  }

  /** The other end closes it. */
  ends(code: number, reason = ""): void {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
}

export function newestSocket(): FakeSocket {
  const socket = FakeSocket.made.at(-1);
  if (socket === undefined) throw new Error("no socket was made");
  return socket;
}
