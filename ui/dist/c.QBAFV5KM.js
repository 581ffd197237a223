import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.GXBYSAC4.js";import"./c.K3RACSUY.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
