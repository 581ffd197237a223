import"./c.FRKUJRYJ.js";import"./c.CA5KZSYX.js";
