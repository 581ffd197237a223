import"./c.MH2OE4SA.js";import"./c.JXU6INJ6.js";import"./c.C5XIBSVV.js";import"./c.5UIX7T22.js";
