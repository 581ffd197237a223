import"./c.HS6DTEMO.js";import"./c.C5XIBSVV.js";import"./c.5UIX7T22.js";
