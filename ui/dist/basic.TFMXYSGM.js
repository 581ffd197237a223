import"./c.ZI4TWFBW.js";import"./c.WEOFLFZF.js";
