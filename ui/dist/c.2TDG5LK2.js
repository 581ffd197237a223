import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.XPBNHDS3.js";import"./c.CA5KZSYX.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
