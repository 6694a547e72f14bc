// Rooms, one at a time, as the address says.
import { el } from "./dom.js";
import { Room } from "./room.js";
import { ROOMS } from "./rooms/all.js";
import { isOwn, readState } from "./state.js";

const place = document.getElementById("room");
const links = document.getElementById("rooms");
const theme = document.getElementById("theme");
const kept = {}; // states of rooms that were left
let room = null;

function open() {
  const { room: id, state, message } = readState();
  const definition = ROOMS.find((r) => r.id === id) ?? ROOMS[0];
  if (room) {
    room.leave();
    kept[room.definition.id] = room.state;
  }
  room = new Room(definition, Object.keys(state).length ? state : (kept[definition.id] ?? {}));
  place.replaceChildren(room.root);
  for (const link of links.children) link.toggleAttribute("aria-current", link.dataset.room === definition.id);
  document.title = `${definition.title} – gramian play`;
  room.parts.points?.();
  room.ask();
  if (message) room.error.textContent = message;
}

links.append(...ROOMS.map(({ id, title }) => el("a", { href: `#${id}`, "data-room": id }, title)));
addEventListener("hashchange", () => isOwn() || open());

const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const label = () => (theme.textContent = dark() ? "Light" : "Dark");
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  label();
});
label();
open();
