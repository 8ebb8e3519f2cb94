/** Icons: drawn on a grid of 24, one stroke weight. */
import type { ComponentChildren } from "preact";

const draw = (children: ComponentChildren) => () => (
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    {children}
  </svg>
);

export const PenIcon = draw(
  <>
    <path d="M4.5 19.5 6 14 15.8 4.2a1.9 1.9 0 0 1 2.7 0l1.3 1.3a1.9 1.9 0 0 1 0 2.7L10 18Z" />
    <path d="m13.5 6.5 4 4" />
  </>,
);
export const HighlighterIcon = draw(
  <>
    <path d="m8.5 11.5 6.8-6.8a1.6 1.6 0 0 1 2.2 0l1.8 1.8a1.6 1.6 0 0 1 0 2.2l-6.8 6.8" />
    <path d="m8.5 11.5-1.8 3.2a1.5 1.5 0 0 0 .2 1.8l.6.6a1.5 1.5 0 0 0 1.8.2l3.2-1.8Z" />
    <path d="m6.8 17.2-2.3 2.3h4.3l.7-2.1M13.5 19.5h6" />
  </>,
);
export const EraserIcon = draw(
  <>
    <path d="m9 19.5-4.4-4.4a1.9 1.9 0 0 1 0-2.7l7.8-7.8a1.9 1.9 0 0 1 2.7 0l4.3 4.3a1.9 1.9 0 0 1 0 2.7l-7.9 7.9Z" />
    <path d="m8.4 8.6 7 7M11 19.5h8.5" />
  </>,
);
export const HandIcon = draw(
  <>
    <path d="M8 12.5V6.6a1.4 1.4 0 0 1 2.8 0V11M10.8 11V5.1a1.4 1.4 0 0 1 2.8 0V11M13.6 11V6.1a1.4 1.4 0 0 1 2.8 0v6" />
    <path d="M16.4 12V8.7a1.4 1.4 0 0 1 2.8 0v5.8a6 6 0 0 1-6 6h-1.1a6 6 0 0 1-4.6-2.2l-3.2-4a1.5 1.5 0 0 1 2.2-2L8 13.8" />
  </>,
);
export const UndoIcon = draw(<path d="M8.5 5 4.5 9l4 4M4.5 9h9.25a5.25 5.25 0 0 1 0 10.5H9" />);
export const RedoIcon = draw(<path d="m15.5 5 4 4-4 4M19.5 9h-9.25a5.25 5.25 0 0 0 0 10.5H15" />);
export const MenuIcon = draw(<path d="M4.5 7.5h15M4.5 12h15M4.5 16.5h15" />);
export const PlusIcon = draw(<path d="M12 5v14M5 12h14" />);
export const MinusIcon = draw(<path d="M5 12h14" />);
export const FitIcon = draw(
  <path d="M4.5 9V6A1.5 1.5 0 0 1 6 4.5h3M15 4.5h3A1.5 1.5 0 0 1 19.5 6v3M19.5 15v3a1.5 1.5 0 0 1-1.5 1.5h-3M9 19.5H6A1.5 1.5 0 0 1 4.5 18v-3" />,
);
export const ShareIcon = draw(
  <path d="M12 14.5v-11M8.2 7 12 3.2 15.8 7M7.5 10.5H6A1.5 1.5 0 0 0 4.5 12v6.5A1.5 1.5 0 0 0 6 20h12a1.5 1.5 0 0 0 1.5-1.5V12a1.5 1.5 0 0 0-1.5-1.5h-1.5" />,
);
export const CloseIcon = draw(<path d="m6 6 12 12M18 6 6 18" />);
export const CheckIcon = draw(<path d="m5 12.5 4.5 4.5L19 7.5" />);
export const BoardsIcon = draw(
  <>
    <rect x="4.5" y="8.5" width="15" height="11" rx="1.8" />
    <path d="M7 5.5h10" />
  </>,
);
export const NewIcon = draw(
  <>
    <rect x="4.5" y="4.5" width="15" height="15" rx="2.5" />
    <path d="M12 8.8v6.4M8.8 12h6.4" />
  </>,
);
export const PictureIcon = draw(
  <>
    <rect x="4.5" y="4.5" width="15" height="15" rx="2.5" />
    <path d="m5 17 4.6-4.6a1.2 1.2 0 0 1 1.7 0L17.5 18M15 9.2v.1" />
  </>,
);
export const VectorIcon = draw(
  <>
    <path d="M6.5 15.5C6.5 9 17.5 15 17.5 8.5" />
    <circle cx="6.5" cy="17.5" r="2" />
    <circle cx="17.5" cy="6.5" r="2" />
  </>,
);
export const FilmIcon = draw(
  <>
    <circle cx="12" cy="12" r="7.8" />
    <path d="M12 7.5V12l3 2" />
  </>,
);
export const MoreIcon = draw(<path d="M6 12v.1M12 12v.1M18 12v.1" />);
export const LockIcon = draw(
  <>
    <rect x="5.5" y="11" width="13" height="8.5" rx="2" />
    <path d="M8.5 11V8a3.5 3.5 0 0 1 7 0v3" />
  </>,
);
export const TrashIcon = draw(
  <path d="M5 7h14M9.5 7V5.5A1.5 1.5 0 0 1 11 4h2a1.5 1.5 0 0 1 1.5 1.5V7M6.8 7l.7 11.1A1.5 1.5 0 0 0 9 19.5h6a1.5 1.5 0 0 0 1.5-1.4L17.2 7" />,
);
export const KeyboardIcon = draw(
  <>
    <rect x="3.5" y="6.5" width="17" height="11" rx="2" />
    <path d="M7.2 10.2v.1M10.4 10.2v.1M13.6 10.2v.1M16.8 10.2v.1M8.5 14h7" />
  </>,
);
export const PlayIcon = draw(
  <path d="M8 5.8v12.4a.8.8 0 0 0 1.2.7l10-6.2a.8.8 0 0 0 0-1.4l-10-6.2a.8.8 0 0 0-1.2.7Z" />,
);
export const PauseIcon = draw(<path d="M8.5 5.5v13M15.5 5.5v13" />);
export const EyeIcon = draw(
  <>
    <path d="M3.5 12S6.5 6.5 12 6.5 20.5 12 20.5 12 17.5 17.5 12 17.5 3.5 12 3.5 12Z" />
    <circle cx="12" cy="12" r="2.4" />
  </>,
);
export const CopyIcon = draw(
  <>
    <rect x="8.5" y="8.5" width="11" height="11" rx="2" />
    <path d="M15.5 8.5v-2a2 2 0 0 0-2-2h-7a2 2 0 0 0-2 2v7a2 2 0 0 0 2 2h2" />
  </>,
);
export const CloudOffIcon = draw(
  <path d="M4.5 4.5l15 15M8 7.2A5.5 5.5 0 0 1 17 10a4 4 0 0 1 2.6 6.6M16 18.5H7.5a4 4 0 0 1-1.3-7.8" />,
);
export const PeopleIcon = draw(
  <>
    <circle cx="9.5" cy="8.5" r="3.2" />
    <path d="M3.8 18.8c.5-3 2.8-4.8 5.7-4.8s5.2 1.8 5.7 4.8M15.5 5.6a3.2 3.2 0 0 1 0 5.8M17.3 14.5c1.6.7 2.6 2.2 2.9 4.3" />
  </>,
);
