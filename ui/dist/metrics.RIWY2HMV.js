import"./c.YT5ZPAEB.js";import"./c.CVXGBIWS.js";import"./c.SJLQEVXC.js";import"./c.REQUDRCL.js";import"./c.XPBNHDS3.js";import"./c.CA5KZSYX.js";
