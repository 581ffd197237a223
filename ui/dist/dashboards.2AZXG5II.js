import"./c.REOXFLWH.js";import"./c.BEUWYQRS.js";import"./c.5DEIOEMM.js";import"./c.XPBNHDS3.js";import"./c.CA5KZSYX.js";
