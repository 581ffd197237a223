import"./c.LHPTSAVO.js";import"./c.LM2A4VSH.js";
