// Pan and zoom of the graph by pointer, wheel and pinch; the camera's position.

export interface Camera {
  x: number;
  y: number;
  k: number; // screen pixels per scene unit
}

export const LEAST = 0.04;
export const MOST = 3;

export function zoomAt(camera: Camera, factor: number, x: number, y: number): Camera {
  const k = Math.min(MOST, Math.max(LEAST, camera.k * factor));
  return { k, x: x - ((x - camera.x) * k) / camera.k, y: y - ((y - camera.y) * k) / camera.k };
}

/** The camera that centers the whole of `bounds` in a window, enlarged to scale `most` at the most. */
export function fitted(bounds: readonly [number, number, number, number], width: number, height: number, margin: number, most = 1): Camera {
  const [x, y, w, h] = bounds;
  const k = Math.min(most, Math.max(LEAST, Math.min((width - 2 * margin) / Math.max(1, w), (height - 2 * margin) / Math.max(1, h))));
  return { k, x: (width - w * k) / 2 - x * k, y: (height - h * k) / 2 - y * k };
}

export interface Gestures {
  camera(): Camera;
  move(camera: Camera): void;
  focused(): boolean;
}

/** Listens for gestures on an element and returns a function that stops. A drag shorter than 4 px counts as a click. */
export function listenGestures(element: HTMLElement, gestures: Gestures): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let dragging = false;
  let start = { x: 0, y: 0 };

  const local = (event: PointerEvent | WheelEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const down = (event: PointerEvent) => {
    if (event.button > 1) return;
    pointers.set(event.pointerId, local(event));
    start = local(event);
    dragging = false;
  };
  const moved = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    if (!event.buttons) return up(event); // released outside, before the drag began
    const now = local(event);
    if (!dragging && Math.hypot(now.x - start.x, now.y - start.y) < 4) return;
    if (!dragging) {
      dragging = true;
      element.setPointerCapture(event.pointerId);
      element.classList.add("dragging");
    }
    const camera = gestures.camera();
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      gestures.move(zoomAt(camera, factor, (now.x + other.x) / 2, (now.y + other.y) / 2));
    } else {
      gestures.move({ ...camera, x: camera.x + now.x - before.x, y: camera.y + now.y - before.y });
    }
    pointers.set(event.pointerId, now);
  };
  const up = (event: PointerEvent) => {
    pointers.delete(event.pointerId);
    element.classList.remove("dragging");
  };
  // A click that ends a drag selects nothing.
  const click = (event: MouseEvent) => {
    if (dragging) event.stopPropagation();
    dragging = false;
  };
  const wheel = (event: WheelEvent) => {
    const zoom = event.ctrlKey || event.metaKey;
    if (!zoom && !gestures.focused()) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    const camera = gestures.camera();
    const { x, y } = local(event);
    if (zoom) gestures.move(zoomAt(camera, Math.exp(-event.deltaY * unit * 0.0025), x, y));
    else if (event.shiftKey) gestures.move({ ...camera, x: camera.x - (event.deltaX || event.deltaY) * unit });
    else gestures.move({ ...camera, x: camera.x - event.deltaX * unit, y: camera.y - event.deltaY * unit });
  };
  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", moved);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("click", click, true);
  element.addEventListener("wheel", wheel, { passive: false });
  return () => {
    element.removeEventListener("pointerdown", down);
    element.removeEventListener("pointermove", moved);
    element.removeEventListener("pointerup", up);
    element.removeEventListener("pointercancel", up);
    element.removeEventListener("click", click, true);
    element.removeEventListener("wheel", wheel);
  };
}
