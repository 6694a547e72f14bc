// The state of a room in the address, behind the #, so that a link opens the same picture.
let written = "";
let waiting = null;

const fragment = (room, state) => `#${room}?${encodeURIComponent(JSON.stringify(state))}`;
export const linkTo = (room, state) => location.href.split("#")[0] + fragment(room, state);

// Browsers refuse an address that changes too often.
export function writeState(room, state) {
  clearTimeout(waiting);
  waiting = setTimeout(() => history.replaceState(null, "", (written = fragment(room, state))), 200);
}

// { room, state }, or a message where the address cannot be read.
export function readState(hash = location.hash) {
  const [room, text] = hash.replace(/^#/, "").split(/\?(.*)/s);
  if (!text) return { room, state: {} };
  try {
    const state = JSON.parse(decodeURIComponent(text));
    if (state === null || typeof state !== "object" || Array.isArray(state)) throw new Error("no state");
    return { room, state };
  } catch {
    return { room, state: {}, message: "The link is damaged: this is the room as it begins." };
  }
}

export const isOwn = () => location.hash === written;
