import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.C5XIBSVV.js";import"./c.5UIX7T22.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
