import"./c.JXRQDOTZ.js";import"./c.2CV45KHQ.js";import"./c.YKNZCT7Z.js";import"./c.67XCGD6B.js";import"./c.ZWLQM73E.js";
