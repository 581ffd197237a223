import"./c.LVIWZHGT.js";import"./c.5UIX7T22.js";
