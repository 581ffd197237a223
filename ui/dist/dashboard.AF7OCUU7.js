import"./c.5OSGSQUW.js";import"./c.Y7H6YHOU.js";import"./c.JXU6INJ6.js";import"./c.LCYJDNUW.js";import"./c.WJKPHXSX.js";import"./c.NIMKLZQK.js";import"./c.C5XIBSVV.js";import"./c.5UIX7T22.js";
