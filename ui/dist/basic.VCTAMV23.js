import"./c.ZXNHCSLW.js";import"./c.TCNNIQG2.js";
