import"./c.WALQ6KK5.js";import"./c.AED6DOBJ.js";import"./c.7Y7AVWHZ.js";import"./c.NIMKLZQK.js";import"./c.FGTTRULY.js";import"./c.WEOFLFZF.js";
