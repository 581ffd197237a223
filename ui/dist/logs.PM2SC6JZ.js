import"./c.RU6RJZDF.js";import"./c.Q3BNSVEB.js";import"./c.XPBNHDS3.js";import"./c.CA5KZSYX.js";
