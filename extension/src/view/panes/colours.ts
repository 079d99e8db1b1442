// The colors of a tensor's elements: diverging around zero, with separate colors for NaN and infinities.

import { numberText } from "../words";

type Colour = readonly [number, number, number];

// From blue through a neutral middle to orange: distinguishable for color-blind readers, and dark enough at both ends.
const NEGATIVE: Colour = [33, 102, 172];
const POSITIVE: Colour = [200, 80, 10];
const NAN: Colour = [214, 0, 108];
const INFINITE: Colour = [122, 0, 184];

/** The color of an element on a scale that ends at ± `extent`. */
function colourOf(value: number, extent: number, dark: boolean): Colour {
  if (Number.isNaN(value)) return NAN;
  if (!Number.isFinite(value)) return INFINITE;
  const middle: Colour = dark ? [38, 40, 46] : [247, 247, 247];
  const share = extent > 0 ? Math.max(-1, Math.min(1, value / extent)) : 0;
  const end = share < 0 ? NEGATIVE : POSITIVE;
  const bright = dark ? 1.25 : 1;
  const mix = (at: 0 | 1 | 2) => Math.min(255, Math.round(middle[at] + (end[at] * bright - middle[at]) * Math.abs(share) ** 0.8));
  return [mix(0), mix(1), mix(2)];
}

export function heatColour(value: number, extent: number, dark: boolean): string {
  return `rgb(${colourOf(value, extent, dark).join(" ")})`;
}

/** Black or white, whichever is more readable on the element's color, by WCAG's relative luminance. */
export function heatInk(value: number, extent: number, dark: boolean): string {
  const [r, g, b] = colourOf(value, extent, dark).map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4)) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

/** The largest finite magnitude. */
export function largest(values: ArrayLike<number>): number {
  let found = 0;
  for (let at = 0; at < values.length; at++) if (Number.isFinite(values[at])) found = Math.max(found, Math.abs(values[at]!));
  return found;
}

export const NUMBERED = 6; // largest number of rows and columns of a matrix shown as numbers
export const NUMBER_WIDTH = 43; // width in pixels of "−0.123", "−0.012" and "−1e−5"

/** Formats an element as precisely as the width of a cell allows. */
export function cellNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 && size < 1e5) return String(Math.round(value)).replace("-", "−");
  return numberText(value, size < 1e-2 || size >= 1e5 ? 1 : size < 0.1 ? 2 : 3);
}
