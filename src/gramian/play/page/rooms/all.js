import { mixtures } from "./mixtures.js";
import { plane } from "./plane.js";
import { regression } from "./regression.js";

export const ROOMS = [plane, regression, mixtures];
