import"./c.AJJR2BLZ.js";import"./c.ZWLQM73E.js";
