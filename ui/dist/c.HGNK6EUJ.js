import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.LYXALABG.js";import"./c.W7VN5GBK.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
