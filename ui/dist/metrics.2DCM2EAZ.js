import"./c.YPSCHFJ2.js";import"./c.LCYJDNUW.js";import"./c.WJKPHXSX.js";import"./c.NIMKLZQK.js";import"./c.C5XIBSVV.js";import"./c.5UIX7T22.js";
