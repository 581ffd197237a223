import"./c.FJT4HAFT.js";import"./c.72YF6XIC.js";import"./c.ENOHEU24.js";import"./c.AED6DOBJ.js";import"./c.7Y7AVWHZ.js";import"./c.NIMKLZQK.js";import"./c.FGTTRULY.js";import"./c.WEOFLFZF.js";
