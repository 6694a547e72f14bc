// The rooms, in the order of a course.
import { approximation } from "./approximation.js";
import { duality } from "./duality.js";
import { features } from "./feature_space.js";
import { mixtures } from "./mixtures.js";
import { own } from "./own_data.js";
import { plane } from "./plane.js";
import { regression } from "./regression.js";

export const ROOMS = [plane, regression, features, duality, approximation, mixtures, own];
