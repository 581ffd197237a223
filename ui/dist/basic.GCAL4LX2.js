import"./c.3POHHW3N.js";import"./c.LRODMJYA.js";
