import"./c.MCHIRDNX.js";import"./c.XTVRAY2M.js";import"./c.SIOQTZFY.js";import"./c.NIMKLZQK.js";import"./c.Y7AQBIVH.js";import"./c.I2YF5GO7.js";
