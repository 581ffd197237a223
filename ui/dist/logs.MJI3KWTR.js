import"./c.5EPWJU2J.js";import"./c.FGTTRULY.js";import"./c.WEOFLFZF.js";
