/** The sight: which part of the ink to look at. All of it if that fits, otherwise the place that has most strokes. */
import { type Box, emptyBox, include } from "./box.ts";

/** One stroke, as far as it matters where it is. */
export interface Spot {
  /** Larger: newer. */
  readonly order: number;
  /** Around all of it. */
  readonly box: Box;
  /** Around its newest point: what is looked at where the stroke alone is too large. */
  readonly end: () => Box;
}

/** Places that are weighed at a time; the one with the fewest strokes makes way. */
const PLACES_MAX = 8;

interface Place {
  readonly box: Box;
  strokes: number;
}

/**
 * The box to look at. The middle of ink that is spread too wide mostly has no ink; so from the newest stroke back each one
 * joins the first place that still fits with it, and the place with most strokes is taken, of equals the newest. To take the
 * newest place whatever it holds would let a single far stroke hide a whole board.
 */
export function sight(spots: readonly Spot[], fits: (box: Box) => boolean): Box {
  const all = emptyBox();
  for (const { box } of spots) {
    include(all, box);
  }
  if (fits(all)) {
    return all;
  }
  const places: Place[] = [];
  for (const spot of [...spots].sort((a, b) => b.order - a.order)) {
    const box = fits(spot.box) ? spot.box : spot.end();
    const place = places.find((each) => fits(joined(each.box, box)));
    if (place) {
      include(place.box, box);
      place.strokes++;
      continue;
    }
    if (places.length >= PLACES_MAX) {
      const least = places.reduce((a, b) => (b.strokes <= a.strokes ? b : a));
      places.splice(places.indexOf(least), 1);
    }
    places.push({ box: { ...box }, strokes: 1 });
  }
  const [newest, ...others] = places;
  return newest
    ? others.reduce((most, each) => (each.strokes > most.strokes ? each : most), newest).box
    : all;
}

function joined(one: Box, other: Box): Box {
  const box = { ...one };
  include(box, other);
  return box;
}
