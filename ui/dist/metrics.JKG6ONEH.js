import"./c.KNTONBC4.js";import"./c.JMTPXD6L.js";import"./c.SJLQEVXC.js";import"./c.6CPR5BD2.js";import"./c.XSI54KGT.js";import"./c.L5IBBXPZ.js";
