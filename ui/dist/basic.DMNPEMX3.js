import"./c.Y4OTS5ZW.js";import"./c.A6LXTHNP.js";
