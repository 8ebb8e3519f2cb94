/**
 * The session: what both transports share. It takes frames, moves the outbox and the replica, and tells what
 * follows; it never waits.
 */
import { asked, Backoff } from "./backoff.ts";
import { frameRemedy, type Remedy } from "./code.ts";
import {
  encodeDraws,
  encodeHello,
  encodePointer,
  encodeProfile,
  encodeToken,
  type ServerFrame,
  type Welcome,
} from "./codec.ts";
import type { LogRecord, Participant, Profile } from "./draw.ts";

import type { Credentials } from "./http.ts";
import { PROFILE_NAME_CHARS } from "./limits.ts";
import type { Outbox, Refused } from "./outbox.ts";
import type { Position } from "./position.ts";
import { OutOfOrder, Replica } from "./replica.ts";

/** How often a pointer is sent at most, in ms. */
const POINTER_INTERVAL_MS = 50;
/** Waits between attempts at a draw that got no answer, when the server does not say; in ms. */
const RETRY_FIRST_MS = 200;
const RETRY_MAX_MS = 10_000;

/** Why a connection ended. */
export type Ended =
  /** The program wanted it. */
  | { readonly kind: "closed" }
  /** It comes back after a while. `blame`: it speaks against WebSockets when a socket ends so soon. */
  | {
      readonly kind: "lost";
      readonly why: string;
      readonly retryMs: number | null;
      readonly blame: boolean;
      readonly draining: boolean;
    }
  /** It may be dead, and another is better than to wait and see: at once, over this socket if there is one. */
  | { readonly kind: "moved"; readonly socket: WebSocket | null; readonly older: WebSocket | null }
  /** A ticket or token is needed, wrong or expired; which, the socket does not say. */
  | { readonly kind: "unauthorized"; readonly why: string }
  /** It comes back with a new client id; `lost` when the store is known to have lost what is kept. */
  | { readonly kind: "new-client"; readonly why: string; readonly lost: boolean }
  /** Somebody else goes on as this client. */
  | { readonly kind: "replaced" }
  /** It does not come back by itself. */
  | { readonly kind: "refused"; readonly code: string; readonly message: string };

/** The network's fault, or a proxy's. */
export function lost(why: string): Ended {
  return { kind: "lost", why, retryMs: null, blame: true, draining: false };
}

/** Nothing that speaks against the transport. */
export function again(why: string, retryMs: number | null, draining = false): Ended {
  return { kind: "lost", why, retryMs, blame: false, draining };
}

/** By what is done about an error that concerns the whole session. */
export function endedBy(remedy: Remedy, code: string, message: string, retryMs: number | null): Ended {
  switch (remedy) {
    case "newSession":
      return { kind: "new-client", why: message, lost: false };
    case "giveUp":
    case "drop":
      return { kind: "refused", code, message };
    case "retry":
    case "renumber":
    case "reset":
      return again(message, retryMs, code === "draining");
  }
}

/** Who hears of what happens. */
export interface Listener {
  onWelcome(welcome: Welcome): void;
  /** The next records of the log, each once. */
  onRecords(records: readonly LogRecord[]): void;
  /** Forget the board; these records draw it as of that position. */
  onReset(records: readonly LogRecord[], position: Position): void;
  onRefused(refused: readonly Refused[]): void;
  /** The outbox changed: there may be something to save, to send or to tell. */
  onOutbox(): void;
  /** The replica moved, or caught up. */
  onProgress(): void;
  onParticipants(participants: readonly Participant[]): void;
  /** Whether only moderators draw. */
  onLocked(locked: boolean): void;
  onPointer(pointer: { readonly client: number; readonly x: number; readonly y: number }): void;
}

/** See the module. */
export class Session {
  readonly replica = new Replica();
  readonly outbox: Outbox;
  readonly #listener: Listener;
  readonly #retry = new Backoff(RETRY_FIRST_MS, RETRY_MAX_MS);
  #profile: Profile | null;
  #token: string | null;
  #newProfile = false;
  #newToken = false;
  #pointer: { readonly x: number; readonly y: number } | null = null;
  #pointerSent = Number.NEGATIVE_INFINITY;
  /** Sends what is there to send; set by the transport that runs. */
  #send: (() => void) | null = null;
  #sendQueued = false;
  /** What this connection said of a lock; where it said nothing before it lists who is here, there is none. */
  #locked = false;

  constructor(outbox: Outbox, listener: Listener, profile: Profile | null, token: string | null) {
    this.outbox = outbox;
    this.#listener = listener;
    this.#profile = profile && tellable(profile);
    this.#token = token;
  }

  get credentials(): Credentials {
    return { ticket: this.outbox.ticket, token: this.#token };
  }

  get profile(): Profile | null {
    return this.#profile;
  }

  /** The transport that is to send from now on; `null` when it ends. */
  sendBy(send: (() => void) | null): void {
    this.#send = send;
  }

  /** There is something to send. What is there by the end of this task goes together. */
  wake(): void {
    if (this.#send === null || this.#sendQueued) return;
    this.#sendQueued = true;
    queueMicrotask(() => {
      this.#sendQueued = false;
      this.#send?.();
    });
  }

  setProfile(profile: Profile): void {
    this.#profile = tellable(profile);
    this.#newProfile = true;
    this.wake();
  }

  setToken(token: string): void {
    this.#token = token;
    this.#newToken = true;
    this.wake();
  }

  /** The newest is all that counts, and it may be dropped. */
  setPointer(x: number, y: number): void {
    this.#pointer = { x, y };
    this.wake();
  }

  /** The first frame of a socket. */
  hello(): Uint8Array {
    this.#newProfile = false;
    this.#newToken = false;
    return encodeHello({
      ticket: this.outbox.ticket,
      position: this.replica.position,
      profile: this.#profile,
      token: this.#token,
    });
  }

  /** Whether the profile changed since it was last told. */
  takeNewProfile(): boolean {
    const is = this.#newProfile;
    this.#newProfile = false;
    return is;
  }

  /** Frames that are to be sent now, and when to ask again. */
  frames(now: number): { readonly frames: readonly Uint8Array[]; readonly again: number | null } {
    const frames: Uint8Array[] = [];
    let askAgain: number | null = null;
    for (;;) {
      const next = this.outbox.next(now);
      if (next.kind === "batch") {
        frames.push(encodeDraws(next.batch.n, next.batch.draws));
        continue;
      }
      if (next.kind === "wait") askAgain = next.at;
      break;
    }
    if (this.#newToken && this.#token !== null) frames.push(encodeToken(this.#token));
    if (this.#newProfile && this.#profile !== null) frames.push(encodeProfile(this.#profile));
    this.#newToken = false;
    this.#newProfile = false;
    if (this.#pointer !== null) {
      const due = this.#pointerSent + POINTER_INTERVAL_MS;
      if (due <= now) {
        frames.push(encodePointer(this.#pointer.x, this.#pointer.y));
        this.#pointer = null;
        this.#pointerSent = now;
      } else {
        askAgain = Math.min(askAgain ?? due, due);
      }
    }
    return { frames, again: askAgain };
  }

  /** Takes one frame. Returns why the connection is to end, or `null` if it is not. */
  onFrame(frame: ServerFrame, now: number): Ended | null {
    switch (frame.kind) {
      case "welcome":
        return this.onWelcome(frame, now);
      case "records":
        return this.onRecords(frame.seq, frame.records);
      case "ack":
        this.onAck(frame.n, now);
        return null;
      case "reset":
        return this.onReset(frame.position, frame.records, frame.more);
      case "participants":
        this.onRoomInfo(frame.participants, this.#locked);
        return null;
      case "lock":
        this.#locked = frame.locked;
        this.#listener.onLocked(frame.locked);
        return null;
      case "pointer":
        this.#listener.onPointer(frame);
        return null;
      case "heartbeat": {
        const overdue = this.replica.onHeartbeat(frame.position.seq);
        this.#listener.onProgress();
        return overdue ? again("the server has records that do not arrive", null) : null;
      }
      case "error":
        return this.onError(frame.code, frame.message, frame.retryMs, frame.n, now);
      case "goAway":
        return again(`the server is going away: ${frame.reason}`, frame.retryMs, true);
      case "unknown":
        return null;
    }
  }

  /** A session is open. */
  onWelcome(welcome: Welcome, now: number): Ended | null {
    this.replica.onConnected(welcome.position);
    const result = this.outbox.onWelcome(welcome.client, welcome.ticket, welcome.limits, now);
    if (result === "lost") return numberingLost();
    this.#locked = false;
    this.#listener.onWelcome(welcome);
    if (result.length > 0) this.#listener.onRefused(result);
    this.#listener.onOutbox();
    this.#listener.onProgress();
    return null;
  }

  /** The connection is gone. */
  onDisconnected(): void {
    this.outbox.onDisconnected();
    this.replica.onDisconnected();
  }

  /** The next records. */
  onRecords(first: number, records: readonly LogRecord[]): Ended | null {
    const repeats = this.replica.onRecords(first, records);
    if (repeats instanceof OutOfOrder) return again(repeats.why, null);
    if (repeats < records.length) this.#listener.onRecords(records.slice(repeats));
    this.#listener.onProgress();
    return null;
  }

  /** One part of a reset. The board shows the old until the last part is there. */
  onReset(position: Position, records: readonly LogRecord[], more: boolean): Ended | null {
    const reset = this.replica.onReset(position, records, more);
    if (reset instanceof OutOfOrder) return again(reset.why, null);
    if (reset !== null) {
      this.#listener.onReset(reset.records, position);
      if (reset.newEpoch) {
        // The store may have lost what it acked, also where no welcome comes to say so.
        this.outbox.offerKept();
        this.#listener.onOutbox();
      }
    }
    this.#listener.onProgress();
    return null;
  }

  /** All draws up to `n` are stored. */
  onAck(n: number, now: number): void {
    this.#retry.reset();
    this.outbox.onAck(n, now);
    this.#listener.onOutbox();
  }

  /** Something was refused or got no answer. Returns why the connection is to end, or `null` if it is not. */
  onError(
    code: string,
    message: string,
    retryMs: number | null,
    n: number | null,
    now: number,
  ): Ended | null {
    const remedy = frameRemedy(code, retryMs);
    if (n === null) {
      // A fresh token that is not taken changes nothing: the old one stays until it is over.
      if (code === "invalid_token") return null;
      // Of a pointer or profile that came too fast: the next one will do.
      return remedy === "retry" || remedy === "drop" ? null : endedBy(remedy, code, message, retryMs);
    }
    switch (remedy) {
      case "renumber":
        if (this.outbox.onGap(n, now) === "lost") return numberingLost();
        break;
      case "retry":
        this.outbox.onRetry(n, now + this.retryAfter(retryMs));
        break;
      case "drop":
      case "giveUp":
        this.#listener.onRefused(this.outbox.onRefused(n, code, message));
        break;
      default:
        return endedBy(remedy, code, message, retryMs);
    }
    this.#listener.onOutbox();
    return null;
  }

  /** A batch up to `lastN` was refused without a word on which of its draws is at fault. */
  onRefusedSomewhere(lastN: number): void {
    this.outbox.onRefusedSomewhere(lastN);
    this.#listener.onOutbox();
  }

  /** How long to wait before the same is tried again, in ms. */
  retryAfter(retryMs: number | null): number {
    return retryMs === null ? this.#retry.next(Math.random()) : asked(retryMs, Math.random());
  }

  /** From now on with a new client id. */
  onNewClient(isLost: boolean): void {
    this.outbox.onNewClient(isLost);
    this.#listener.onOutbox();
  }

  /** Who is here, and whether only moderators draw. */
  onRoomInfo(participants: readonly Participant[], locked: boolean): void {
    this.#listener.onLocked(locked);
    this.#listener.onParticipants(participants);
  }
}

/** As a server takes it: any other ends the connection for good, and a name is what people type. */
function tellable({ name, rgba }: Profile): Profile {
  // By code points; half a surrogate pair is no text.
  const characters = [...name].filter((character) => !/^[\ud800-\udfff]$/.test(character));
  return { name: characters.slice(0, PROFILE_NAME_CHARS).join(""), rgba: rgba >>> 0 };
}

function numberingLost(): Ended {
  return { kind: "new-client", why: "the server lost draws that are no longer kept here", lost: true };
}
