import"./c.NL5UHVVA.js";import"./c.A6LXTHNP.js";
