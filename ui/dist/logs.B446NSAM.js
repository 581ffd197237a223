import"./c.6W7AYBVN.js";import"./c.PUL2MTSW.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";
