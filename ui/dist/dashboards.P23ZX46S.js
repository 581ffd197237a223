import"./c.A7EL4XTL.js";import"./c.SPQZPDIP.js";import"./c.MOAVTL4V.js";import"./c.Y7AQBIVH.js";import"./c.I2YF5GO7.js";
