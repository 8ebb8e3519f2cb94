/** The page: what a storage has to know of the tab it lives in. */

/** How a tab hands things to the page that comes after it, and when it goes. */
export interface Page {
  /** Takes out what the page before this one in this tab left under that key. */
  take(key: string): string | null;
  /** Leaves it to the page that comes next in this tab. */
  leave(key: string, value: string): void;
  /** The page is going, and may come back. */
  onHide(listener: () => void): () => void;
  /** The page came back from where it was kept whole. */
  onShow(listener: () => void): () => void;
  /** Calls back every `ms`. Returns how to end that. */
  every(ms: number, listener: () => void): () => void;
}

/** The browser's page; where there is none (Node), one that never goes. */
export declare function browserPage(): Page;
