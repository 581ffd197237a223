import"./c.KO7TCB2Y.js";import"./c.BIIO6VX2.js";import"./c.Y7AQBIVH.js";import"./c.I2YF5GO7.js";
