/** The choice: whether sockets work here. Some proxies refuse them, and some accept them and cut them at once. */

/** How many times the first wait for another socket grows at most. */
const SOCKET_AGAIN_GROWTH = 16;

/** All but the count in ms; see {@link Timing}. */
export interface ChoiceTiming {
  readonly young: number;
  readonly youngDeaths: number;
  readonly socketAgain: number;
}

/** No clock: time is an argument, in ms. */
export class Choice {
  readonly #transport: "auto" | "websocket" | "long-poll";
  readonly #timing: ChoiceTiming;
  #youngDeaths = 0;
  #wait: number;
  #againAt: number | null = null;

  constructor(transport: "auto" | "websocket" | "long-poll", timing: ChoiceTiming) {
    this.#transport = transport;
    this.#timing = timing;
    this.#wait = timing.socketAgain;
  }

  get usesSockets(): boolean {
    return this.#transport === "auto" ? this.#againAt === null : this.#transport === "websocket";
  }

  /** When a long poll is to look for a socket again; `null` for never. */
  get socketDue(): number | null {
    return this.#againAt;
  }

  /** A socket that lived that long ended, or could not be opened. `blame`: it may have been for being a socket. */
  onSocketEnded(lived: number, blame: boolean, now: number): void {
    if (lived >= this.#timing.young) {
      this.#youngDeaths = 0;
      this.#wait = this.#timing.socketAgain;
      this.#againAt = null;
    } else if (blame) {
      this.#youngDeaths += 1;
    }
    if (this.#transport === "auto" && this.#youngDeaths >= this.#timing.youngDeaths) {
      this.#againAt = now + this.#wait;
      this.#wait = Math.min(this.#wait * 2, this.#timing.socketAgain * SOCKET_AGAIN_GROWTH);
    }
  }
}
